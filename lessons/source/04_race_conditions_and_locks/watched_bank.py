"""Accounts that see how a transfer treats their locks, for the check of 04-transfer."""

from threading import Lock, get_ident
from time import monotonic, sleep

from sidebyside.expectations import NotYet

VERY_LONG = 3600  # seconds: whoever waits for so long, waits


class LongHolder:
    """Somebody who has the locks for 3 s, from the first try to take one of them.

    A try that would wait for some time is refused at once, and a thousand seconds of
    such waiting pass in one. Whoever waits without a time is not kept waiting.
    """

    def __init__(self, seconds: float = 3.0):
        self.seconds, self.until = seconds, None

    def keeps_them(self, timeout: float) -> bool:
        if self.until is None:
            self.until = monotonic() + self.seconds
        self.until -= max(timeout, 0) / 1000
        return monotonic() < self.until


class WatchedLock:
    """The lock of an account: it knows who has it, and who waits with what in hand.

    Whoever will not wait for it is refused twice, as if somebody else had it, and for
    as long as it has a `holder`.
    """

    def __init__(self, account: "WatchedAccount", refuses: int = 2):
        self.account, self.owner, self.holder = account, None, None
        self.refuses = refuses
        self.turn = 0  # how often it has been taken
        self._lock = Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        account, partner = self.account, self.account.partner
        if not blocking or 0 <= timeout < VERY_LONG:
            if self._is_refused(timeout):
                return False
        elif self.owner == get_ident():
            tried = account.tried or f"transfer(…) with the lock of {account}"
            got = "nothing: a thread waits for a lock that it has itself"
            raise NotYet(
                tried,
                got,
                "a Lock that is taken: may the thread that has it take it again?",
            )
        elif partner is not None and partner.held():
            account.waits.add((partner.number, account.number))
        account.meanwhile()
        if not self._lock.acquire(blocking, timeout):
            return False
        self.owner = get_ident()
        self.turn += 1
        account.money += account.deposit  # by somebody who had the lock before
        account.deposit = 0
        if account.delays:
            account.delays -= 1
            sleep(0.001)
        return True

    def _is_refused(self, timeout: float) -> bool:
        self.refuses -= 1
        return self.refuses >= 0 or (
            self.holder is not None and self.holder.keeps_them(timeout)
        )

    def release(self) -> None:
        self.owner = None
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_) -> None:
        self.release()


class WatchedAccount:
    """An account that notes whether its balance is changed by one who has the locks.

    And `turns`, how often both locks had been taken when it was changed.
    The first `delays` times, its lock takes a moment, so that two threads meet. And
    `waits` are pairs of numbers: who held the first lock and waited for the second.
    `tried` is what is told of a thread that waits for itself.
    """

    def __init__(
        self,
        number: int,
        money: int,
        deposit: int = 0,
        delays: int = 0,
        refuses: int = 2,
        tried: str = "",
    ):
        self.number, self.money, self.tried = number, money, tried
        self.deposit, self.delays = deposit, delays
        self.lock, self.partner = WatchedLock(self, refuses), None
        self.careless, self.waits = 0, set()
        self.turns: set[int] = set()
        self.meanwhile = lambda: None  # called whenever it is asked for or changed

    def held(self) -> bool:
        return self.lock.owner == get_ident()

    @property
    def balance(self) -> int:
        return self.money

    @balance.setter
    def balance(self, balance: int) -> None:
        alone = self.held() and (self.partner is None or self.partner.held())
        self.careless += not alone
        self.turns.add(self.lock.turn + (self.partner.lock.turn if self.partner else 0))
        self.meanwhile()
        sleep(0)
        self.money = balance

    def __repr__(self) -> str:
        return f"account {self.number}"


def pair_of_watched_accounts(
    one: int, other: int, *money: int, deposit: int = 0, refuses: int = 2
) -> list[WatchedAccount]:
    pair = [
        WatchedAccount(n, m, deposit, refuses=refuses)
        for n, m in zip((one, other), money, strict=True)
    ]
    pair[0].partner, pair[1].partner = pair[::-1]
    return pair
