"""Who else serves a resource, and who has left (REG-13); all of it without sockets."""

from __future__ import annotations

from genericdp.kubelet.company import Company, Later
from genericdp.kubelet.peers import Peer
from genericdp.observed import Observed

SECOND_NS = 10**9


def peer(instance: str, *, digest: str = "ours", bound_ns: int = 0) -> Peer:
    name = f"{digest}-{instance}-{bound_ns}"
    return Peer(name=name, digest=digest, instance=instance, bound_ns=bound_ns)


class World:
    def __init__(self, *peers: Peer) -> None:
        self.peers = Observed(frozenset(peers))
        self.now = 0.0
        self.company = Company(self.peers, digest="ours", now=lambda: self.now)
        self.company.look()

    def see(self, *peers: Peer, now: float) -> None:
        self.now = now
        self.peers.value = frozenset(peers)
        self.company.look()


def test_only_those_who_serve_the_same_resource_are_company() -> None:
    world = World(peer("a"), peer("b", digest="other"))
    assert world.company.instances == {"a"}
    world.see(peer("a"), now=5.0)
    assert not world.company.left_since(0.0)


def test_a_new_socket_of_an_instance_is_no_leaving() -> None:
    world = World(peer("a"))
    world.see(peer("a", bound_ns=1), peer("b"), now=5.0)
    assert not world.company.left_since(0.0)


def test_who_leaves_has_left_since_any_moment_up_to_then() -> None:
    """K10: also when it came and went while we registered."""
    world = World()
    world.see(peer("a"), now=3.0)
    world.see(now=5.0)
    world.see(peer("b"), now=9.0)
    assert world.company.left_since(5.0)
    assert not world.company.left_since(5.1)


def test_of_those_who_came_later_it_is_told_who_is_away() -> None:
    early, late = peer("early"), peer("late", bound_ns=10 * SECOND_NS)
    world = World(early, late)
    later = Later(world.company, bound_ns=5 * SECOND_NS)
    assert not later.has_left()
    world.see(late, now=1.0)
    assert not later.has_left()
    world.see(now=2.0)
    assert later.has_left()
    world.see(peer("late", bound_ns=11 * SECOND_NS), now=2.1)
    assert not later.has_left()


def test_who_came_at_about_the_same_time_counts_as_later() -> None:
    world = World(peer("same", bound_ns=4 * SECOND_NS))
    later = Later(world.company, bound_ns=5 * SECOND_NS)
    assert not later.has_left()
    world.see(now=1.0)
    assert later.has_left()
