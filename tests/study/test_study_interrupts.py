"""Ctrl-C while something must be finished."""

import os
import signal
import threading

import pytest

from search.study.signals import shielded


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_presses_inside_are_noted_and_do_not_raise():
    with shielded() as shield:
        press()
        press()
        finished = True
    assert finished and shield.pressed


def test_press_after_the_shield_raises_again():
    with shielded() as shield:
        pass
    assert not shield.pressed
    with pytest.raises(KeyboardInterrupt):
        press()


def test_shields_nest_and_the_inner_one_gets_the_press():
    with shielded() as outer:
        with shielded() as inner:
            press()
        assert inner.pressed and not outer.pressed
        press()
    assert outer.pressed


def test_other_thread_has_nothing_to_hold_back():
    seen = []

    def work():
        with shielded() as shield:
            seen.append(shield.pressed)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_sigterm_is_held_back_where_it_would_raise():
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with shielded() as shield:
            os.kill(os.getpid(), signal.SIGTERM)
        assert shield.pressed
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ignored_ctrl_c_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with shielded() as shield:
            press()
        assert not shield.pressed
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
