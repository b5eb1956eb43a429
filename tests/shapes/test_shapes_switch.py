"""The protocol of a switch on several ranks: all or none, whatever one of them does."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from search_shapes.shape import Shape
from search_shapes.switch import FAILED, REFUSED, SWITCHED, Switcher

TREE = Shape(4, 4, 16)
CHAIN = Shape(1, 2, 3)


@dataclass
class Rank:
    """A rank whose steps can be told to fail."""

    faults: frozenset[str] = frozenset()
    page_size: int = 1
    shape: Shape = TREE
    topk: int = 4
    free: float = 20.0
    flushed: int = 0
    built: list[Shape] = field(default_factory=list)

    def refuses(self):
        return "This kind keeps its shape." if "refuse" in self.faults else ""

    def busy(self):
        return "requests are running." if "busy" in self.faults else ""

    def running(self):
        return self.shape

    def places(self):
        return {"worker": self.shape, "draft": self.shape._replace(topk=self.topk)}

    def free_gb(self):
        return self.free

    def full(self):
        return "No addresses are left." if "full" in self.faults else ""

    def state(self):
        return "of the start"

    def build(self, shape):
        if "build" in self.faults or ("build-once" in self.faults and not self.built):
            self.built.append(shape)
            if "forget" in self.faults:
                self.topk = shape.topk
            raise RuntimeError("CUDA out of memory.\nmore")
        self.built.append(shape)
        self.free -= 2.0
        return str(shape)

    def snapshot(self):
        return self.shape, self.topk

    def restore(self, snapshot):
        if "restore" in self.faults:
            raise RuntimeError("cannot go back")
        self.shape, self.topk = snapshot

    def apply(self, shape, state):
        self.shape = shape
        if "apply" in self.faults:
            raise RuntimeError("wrong width")
        if "half" not in self.faults:
            self.topk = shape.topk

    def settle(self):
        self.flushed += 1
        return "requests came in between." if "settle" in self.faults else ""


class Meeting:
    """Ranks in threads."""

    def __init__(self, size):
        self._barrier = threading.Barrier(size, timeout=10)
        self._words = [None] * size

    def of(self, rank):
        meeting = self

        class Seat:
            def hear(self, word):
                meeting._words[rank] = word
                meeting._barrier.wait()
                words = list(meeting._words)
                meeting._barrier.wait()
                return words

        return Seat()


class Servers:
    """Some ranks of one server, asked together."""

    def __init__(self, *ranks, cap=8, room_gb=1.0):
        meeting = Meeting(len(ranks))
        self.ranks = ranks
        self.switchers = [Switcher(rank, meeting.of(i), cap=cap, room_gb=room_gb) for i, rank in enumerate(ranks)]

    def ask(self, shape):
        with ThreadPoolExecutor(len(self.ranks)) as pool:
            asked = [pool.submit(switcher.ask, shape, 7) for switcher in self.switchers]
            lasts = [one.result(20) for one in asked]
        assert len({last.outcome for last in lasts}) == 1, "ranks must end alike"
        return lasts[0]

    @property
    def shapes(self):
        return {rank.shape for rank in self.ranks} | {rank.shape._replace(topk=rank.topk) for rank in self.ranks}


def test_ask_when_all_ranks_can_switches_all_and_flushes_each():
    servers = Servers(Rank(), Rank())
    last = servers.ask(CHAIN)
    assert (last.outcome, last.built, last.memory_gb) == (SWITCHED, True, 2.0)
    assert servers.shapes == {CHAIN}
    assert [rank.flushed for rank in servers.ranks] == [1, 1]
    assert not servers.ask(TREE).built
    assert servers.ranks[0].built == [CHAIN]


@pytest.mark.parametrize("fault", ["refuse", "busy", "full"])
def test_ask_when_one_rank_refuses_none_builds(fault):
    servers = Servers(Rank(), Rank(frozenset({fault})))
    last = servers.ask(CHAIN)
    assert last.outcome == REFUSED
    assert last.reason.startswith("Rank 1: ")
    assert servers.shapes == {TREE}
    assert servers.ranks[0].built == []
    assert not servers.switchers[0].broken


def test_ask_when_one_ranks_build_fails_none_switches_and_the_next_try_may_succeed():
    servers = Servers(Rank(), Rank(frozenset({"build-once"})))
    last = servers.ask(CHAIN)
    assert (last.outcome, servers.shapes) == (FAILED, {TREE})
    assert "Rank 1: Building k1-s2-d3 failed: RuntimeError: CUDA out of memory." in last.reason
    assert not any(switcher.broken for switcher in servers.switchers)
    assert servers.ask(CHAIN).outcome == SWITCHED
    assert servers.shapes == {CHAIN}


def test_ask_when_a_failed_build_leaves_topk_behind_all_ranks_know_it_is_broken():
    servers = Servers(Rank(), Rank(frozenset({"build", "forget"})))
    assert "End this start" in servers.ask(CHAIN).reason
    assert all(switcher.broken for switcher in servers.switchers)
    assert servers.ask(Shape(2, 2, 7)).outcome == REFUSED


@pytest.mark.parametrize("fault", ["apply", "half"])
def test_ask_when_one_rank_cannot_apply_all_go_back(fault):
    servers = Servers(Rank(), Rank(frozenset({fault})), Rank())
    last = servers.ask(CHAIN)
    assert (last.outcome, servers.shapes) == (FAILED, {TREE})
    assert not servers.switchers[0].broken
    assert CHAIN not in servers.switchers[0].states


def test_ask_when_one_rank_can_neither_apply_nor_go_back_is_broken_on_all():
    servers = Servers(Rank(), Rank(frozenset({"apply", "restore"})))
    assert servers.ask(CHAIN).outcome == FAILED
    assert all(switcher.broken for switcher in servers.switchers)


def test_ask_when_the_cache_is_not_flushed_is_broken():
    servers = Servers(Rank(), Rank(frozenset({"settle"})))
    assert servers.ask(CHAIN).outcome == FAILED
    assert "not flushed" in servers.switchers[0].broken


def test_ask_when_memory_ends_on_one_rank_all_ranks_drop_the_same_shape():
    servers = Servers(Rank(free=20.0), Rank(free=4.5))
    for shape in (CHAIN, Shape(2, 2, 7)):
        assert servers.ask(shape).outcome == SWITCHED
    last = servers.ask(Shape(2, 3, 6))
    assert last.outcome == REFUSED, "nothing that was dropped gave memory back"
    assert "0.5 GB are free" in last.reason
    assert [switcher.states.shapes() for switcher in servers.switchers] == [[TREE, Shape(2, 2, 7)]] * 2


def test_ask_when_the_cap_is_reached_drops_the_shape_used_longest_ago():
    servers = Servers(Rank(), cap=3)
    for shape in (CHAIN, Shape(2, 2, 7), CHAIN, Shape(1, 4, 5)):
        servers.ask(shape)
    assert set(servers.switchers[0].states.shapes()) == {TREE, CHAIN, Shape(1, 4, 5)}
    assert servers.ask(Shape(2, 2, 7)).built


def test_ask_when_parts_already_disagree_does_not_confirm_the_shape():
    servers = Servers(Rank(topk=2))
    assert servers.ask(TREE).outcome == FAILED
    assert servers.switchers[0].broken


def test_report_is_plain_values():
    import json

    servers = Servers(Rank())
    servers.ask(CHAIN)
    report = json.loads(json.dumps(servers.switchers[0].report()))
    assert report["now"] == [1, 2, 3]
    assert report["consistent"]
    assert report["last"]["outcome"] == SWITCHED
    assert report["states"] == [[4, 4, 16], [1, 2, 3]]
