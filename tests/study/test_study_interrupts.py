"""Ctrl-C as a value: who looks at it, who waits for whom, and how the process ends."""

import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from search.contracts import RealClock, Slot
from search.errors import Interrupted, StorageFault
from search.study import signals
from search.study.signals import Interrupts
from search.study.workers import ThreadCrew, run_alone
from search.testing.engines import Script, ScriptedEngine


def ended(work, *, strike=signal.SIGTERM, twice=False, before=""):
    """Exit code and output of a process whose `work(interrupts)` says "now" when it may be struck."""
    code = (
        f"import signal, sys, time\n{before}\nfrom search.study.signals import interruptible\n"
        f"def say(word): print(word, flush=True)\ndef work(interrupts):\n{textwrap.indent(textwrap.dedent(work), '    ')}\n"
        "interruptible(work)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        if strike is not None:
            assert process.stdout.readline() == "now\n"
            process.send_signal(strike)
            if twice:
                assert process.stdout.readline() == "stopping\n"
                process.send_signal(strike)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_strike_while_nothing_is_held_ends_the_process_at_once_whatever_it_waits_for(number):
    assert ended("say('now'); time.sleep(600)", strike=number) == (130, "", "Interrupted; nothing was running.\n")


def test_second_strike_does_not_cut_short_what_is_held():
    work = """
        with interrupts.held():
            say("now")
            while not interrupts.pressed: time.sleep(0.01)
            say("stopping")
            time.sleep(1)
            say("stopped")
    """
    assert ended(work, twice=True) == (130, "stopped\n", "")


def test_strike_between_the_last_look_and_the_end_still_ends_130():
    code, out, _ = ended("with interrupts.held():\n    say('now'); time.sleep(0.5); say('done')")
    assert (code, out) == (130, "done\n")


def test_error_of_a_struck_command_is_told_and_ends_130():
    work = """
        from search.errors import Interrupted
        with interrupts.held():
            say("now")
            while not interrupts.pressed: time.sleep(0.01)
            raise Interrupted("Resume with: it")
    """
    assert ended(work) == (130, "", "Resume with: it\n")


@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("sys.exit(3)", 3), ("1 / 0", 1)])
def test_command_that_nobody_strikes_ends_with_its_own_code(end, code):
    found, _, err = ended(end, strike=None)
    assert found == code and ("ZeroDivisionError" in err) == (code == 1)


def test_signal_that_is_ignored_stays_so():
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    code, out, _ = ended("say('now'); time.sleep(0.5); say('done')", strike=signal.SIGINT, before=ignored)
    assert (code, out) == (0, "done\n")


def test_helper_that_answers_a_question_ends_with_the_process():
    work = """
        import subprocess
        helper = subprocess.Popen([sys.executable, "-c", "import time; print('now', flush=True); time.sleep(60)"], start_new_session=True)
        helper.wait()
    """
    code, _, _ = ended(work)  # its output would stay open as long as the helper lives
    assert code == 130


def test_press_is_told_once_to_who_listens_and_at_once_to_who_comes_late():
    interrupts, heard = Interrupts(), []
    with interrupts.telling(lambda: heard.append("early")):
        interrupts.press()
        interrupts.press()
        with interrupts.telling(lambda: heard.append("late")):
            pass
    assert heard == ["early", "late"] and interrupts.pressed


def test_nothing_is_begun_after_a_press():
    interrupts = Interrupts()
    interrupts.press()
    with pytest.raises(Interrupted), interrupts.held():
        pytest.fail("the block must not begin")
    assert not interrupts.is_held


def test_wait_for_a_database_ends_soon_after_a_press(monkeypatch):
    monkeypatch.setattr(signals, "STORING_S", 0.0)
    interrupts = Interrupts()
    interrupts.sleep(0.0)
    interrupts.press()
    with pytest.raises(StorageFault, match="run the same command again"):
        interrupts.sleep(3600)


class Abortable:
    """An executor that hears `abort`."""

    def __init__(self):
        self.aborted = threading.Event()

    def abort(self, slot):
        self.aborted.set()


def test_launch_of_its_own_is_aborted_and_its_record_comes_back_all_the_same():
    executor, interrupts = Abortable(), Interrupts()

    def work(clock):
        interrupts.press()
        assert executor.aborted.wait(60)
        return "stopped and stored"

    crew = ThreadCrew(executor, RealClock())
    assert run_alone(work, slot=Slot(0), crew=crew, interrupts=interrupts) == "stopped and stored"


def test_exception_of_a_handler_is_lost_in_a_weak_reference_but_a_strike_is_not():
    """What `KeyboardInterrupt` did: Python prints what a callback raises, and goes on."""
    work = """
        import os, weakref
        class Thing: pass
        thing = Thing()
        reference = weakref.ref(thing, lambda _: (say("now"), time.sleep(1)))
        del thing
        time.sleep(600)
    """
    assert ended(work)[0] == 130


def test_study_that_is_struck_while_it_opens_begins_nothing(lab):
    """What is left of opening, settling and reporting takes seconds on a busy machine."""
    heard = lab.run(ScriptedEngine(lambda config, _: Script()), launches=3, pressed=True)
    assert isinstance(heard.error, Interrupted) and "nothing was running" in str(heard.error)
    assert lab.launches() == () and heard.starts == []
