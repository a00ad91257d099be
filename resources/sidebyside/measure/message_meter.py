"""What one rank sends and receives: messages, bytes, and how many follow each other."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_METHODS = {  # of a ProcessGroup, behind each function of torch.distributed
    "all_reduce": "allreduce allreduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "all_gather": "allgather _allgather_base all_gather_single allgather_coalesced",
    "reduce_scatter": "reduce_scatter _reduce_scatter_base reduce_scatter_single",
    "all_to_all": "alltoall alltoall_base all_to_all_single",
    "barrier": "barrier monitored_barrier",
}
COLLECTIVES = {m: name for name, ms in _METHODS.items() for m in ms.split()}


@dataclass
class Message:
    """One call of send or receive on this rank: `peer` is the rank at the other end."""

    way: str  # "send" or "receive"
    peer: int | None  # None: received from whoever sends, not known before the end
    size: int  # bytes


@dataclass
class Wait:
    """The rank stood still until these of its messages had arrived."""

    messages: tuple[int, ...]  # places in the list of events; none: a collective


class MessageMeter:
    """`with MessageMeter() as meter:` inside a rank counts what this rank says.

    It counts each point-to-point message (`send`, `isend`, `recv`, `irecv`,
    `batch_isend_irecv`) of `torch.distributed`, whatever name it was imported by, and
    changes none. Collectives are not taken apart: `collectives` names those that were
    called, for the library sends their messages itself.
    """

    def __init__(self):
        self.events: list[Message | Wait] = []
        self.collectives: list[str] = []
        self._wrapped: list[tuple[type, str, object]] = []
        self.not_awaited = 0  # messages that were begun, and never waited for
        self._waiting: dict[int, tuple] = {}  # id of the Work: Work, place, group

    def __enter__(self) -> "MessageMeter":
        from torch.distributed import ProcessGroup, Work

        if self.events or self._wrapped:
            raise ValueError("a MessageMeter counts once: make a new MessageMeter()")
        self._wrap(ProcessGroup, "send", self._sending)
        self._wrap(ProcessGroup, "recv", self._receiving)
        self._wrap(ProcessGroup, "recv_anysource", self._receiving_from_any)
        for method in COLLECTIVES:
            if hasattr(ProcessGroup, method):
                self._wrap(ProcessGroup, method, self._collective(COLLECTIVES[method]))
        self._wrap(Work, "wait", self._wait)
        return self

    def __exit__(self, *exception) -> None:
        for owner, name, original in reversed(self._wrapped):
            setattr(owner, name, original)
        self._wrapped.clear()
        self.not_awaited = len(self._waiting)
        self._waiting.clear()

    def _wrap(self, owner: type, name: str, wrapper: Callable) -> None:
        original = vars(owner)[name]

        def wrapped(self, *args, **options):
            return wrapper(original.__get__(self), self, *args, **options)

        setattr(owner, name, wrapped)
        self._wrapped.append((owner, name, original))

    def _sending(self, send, group, tensors, peer, *args, **options):
        work = send(tensors, peer, *args, **options)
        return self._note("send", _global_rank(group, peer), tensors, work)

    def _receiving(self, recv, group, tensors, peer, *args, **options):
        work = recv(tensors, peer, *args, **options)
        return self._note("receive", _global_rank(group, peer), tensors, work)

    def _receiving_from_any(self, recv, group, tensors, *args, **options):
        work = recv(tensors, *args, **options)
        return self._note("receive", None, tensors, work, group)

    def _collective(self, name: str) -> Callable:
        def called(method, group, *args, **options):
            self.collectives.append(name)
            return method(*args, **options)

        return called

    def _note(self, way: str, peer, tensors, work, group=None):
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if work is not None:
            self._waiting[id(work)] = work, len(self.events), group
        self.events.append(Message(way, peer, size))
        return work

    def _wait(self, wait, work, *args, **options):
        done = wait(*args, **options)
        _, place, group = self._waiting.pop(id(work), (None, None, None))
        if place is not None:
            message = self.events[place]
            if message.peer is None:
                message.peer = _global_rank(group, work._source_rank())
            self.events.append(Wait((place,)))
        elif self._waiting and _one_work_for_a_batch():
            self.events.append(Wait(tuple(p for _, p, _ in self._waiting.values())))
            self._waiting.clear()
        return done

    def _messages(self, way: str) -> list[Message]:
        return [e for e in self.events if isinstance(e, Message) and e.way == way]

    @property
    def messages_sent(self) -> int:
        return len(self._messages("send"))

    @property
    def messages_received(self) -> int:
        return len(self._messages("receive"))

    @property
    def bytes_sent(self) -> int:
        return sum(message.size for message in self._messages("send"))

    @property
    def bytes_received(self) -> int:
        return sum(message.size for message in self._messages("receive"))

    @property
    def sent_to(self) -> dict[int | None, int]:
        """Bytes sent to each rank that got a message."""
        total: Counter[int | None] = Counter()
        for message in self._messages("send"):
            total[message.peer] += message.size
        return dict(sorted(total.items()))

    @property
    def steps(self) -> int:
        """How many groups of messages this rank began, one after another."""
        before = [Wait(()), *self.events]
        return sum(
            isinstance(event, Message) and isinstance(last, Wait)
            for last, event in zip(before, self.events, strict=False)
        )

    def __repr__(self) -> str:
        return (
            f"<MessageMeter: sent {self.messages_sent} ({self.bytes_sent:,} bytes), "
            f"received {self.messages_received} ({self.bytes_received:,} bytes), "
            f"{self.steps} steps>"
        )


def consecutive_steps(meters: Sequence[MessageMeter]) -> int:
    """The steps of all ranks together, when each message takes one step.

    In one step a rank sends one message and receives one: what it posts beyond that
    waits for the next step. A message starts when both ends have come to it. `meters`
    are those of all ranks, in rank order; `ValueError` if a message has one end only.
    """
    return _Replay(meters).run()


class _Replay:
    """Goes through the events of all ranks, with a clock for each that counts steps."""

    def __init__(self, meters: Sequence[MessageMeter]):
        self.events = [meter.events for meter in meters]
        self.clock = [0] * len(meters)
        self.free = {way: [0] * len(meters) for way in ("send", "receive")}
        self.posted: dict[tuple, deque] = {}
        self.finish: dict[tuple[int, int], int] = {}  # (rank, place): step

    def run(self) -> int:
        at = [0] * len(self.events)
        moved = [True]
        while any(moved):  # one event of each rank in turn
            moved = [self._advance(rank, at) for rank in range(len(at))]
        left = sum(map(len, self.posted.values()))
        if left or any(map(lambda p, e: p < len(e), at, self.events)):
            raise ValueError("some messages were sent or received at one end only")
        return max(self.finish.values(), default=0)

    def _advance(self, rank: int, at: list[int]) -> bool:
        """Take the rank's next event, unless it waits for one that has no end yet."""
        if at[rank] == len(self.events[rank]):
            return False
        event = self.events[rank][at[rank]]
        if isinstance(event, Message):
            self._post(rank, at[rank], event)
        elif all((rank, place) in self.finish for place in event.messages):
            ends = (self.finish[rank, place] for place in event.messages)
            self.clock[rank] = max(self.clock[rank], *ends, 0)
        else:
            return False
        at[rank] += 1
        return True

    def _post(self, rank: int, place: int, message: Message) -> None:
        """Put it beside its other end, if that is there, and let it take its step."""
        sends = message.way == "send"
        pair = (rank, message.peer) if sends else (message.peer, rank)
        other = self.posted.setdefault((*pair, not sends), deque())
        mine = (rank, place, self.clock[rank])
        if not other:
            self.posted.setdefault((*pair, sends), deque()).append(mine)
            return
        sender, receiver = (mine, other.popleft())[:: 1 if sends else -1]
        begin = max(
            sender[2],
            receiver[2],
            self.free["send"][sender[0]],
            self.free["receive"][receiver[0]],
        )
        self.free["send"][sender[0]] = self.free["receive"][receiver[0]] = begin + 1
        self.finish[sender[:2]] = self.finish[receiver[:2]] = begin + 1


def _one_work_for_a_batch() -> bool:
    """NCCL's `batch_isend_irecv` gives one Work, which is none of its messages'."""
    import torch.distributed as dist

    return dist.get_backend() == "nccl"


def _global_rank(group, peer: int) -> int:
    import torch.distributed as dist

    return dist.get_global_rank(group, peer)
