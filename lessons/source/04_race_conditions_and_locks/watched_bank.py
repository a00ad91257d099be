"""Accounts that see how a transfer treats their locks, for the check of 04-transfer."""

from threading import Lock, get_ident

from sidebyside.exercises.expectations import NotYet


class WatchedLock:
    """The lock of an account: it knows who has it, and who waits with what in hand.

    Whoever will not wait for it is refused once, as if somebody else had it.
    """

    def __init__(self, account: "WatchedAccount"):
        self.account, self.owner, self.has_refused = account, None, False
        self._lock = Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        account, partner = self.account, self.account.partner
        if not blocking or timeout >= 0:
            if not self.has_refused:
                self.has_refused = True
                return False
        elif self.owner == get_ident():
            raise NotYet(
                f"transfer(…) with the lock of {account}",
                "nothing: a thread waits for a lock that it has itself",
                "a Lock that is taken: may the thread that has it take it again?",
            )
        elif partner is not None and partner.held():
            account.waits.add((partner.number, account.number))
        account.meanwhile()
        if not self._lock.acquire(blocking, timeout):
            return False
        self.owner = get_ident()
        account.money += account.deposit  # by somebody who had the lock before
        account.deposit = 0
        return True

    def release(self) -> None:
        self.owner = None
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_) -> None:
        self.release()


class WatchedAccount:
    """An account that notes whether its balance is changed by one who has the locks.

    And `waits` are pairs of numbers: who held the first lock and waited for the second.
    """

    def __init__(self, number: int, money: int, deposit: int = 0):
        self.number, self.money, self.deposit = number, money, deposit
        self.lock, self.partner = WatchedLock(self), None
        self.careless, self.waits = 0, set()
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
        self.meanwhile()
        self.money = balance

    def __repr__(self) -> str:
        return f"account {self.number}"


def pair_of_watched_accounts(
    one: int, other: int, *money: int, deposit: int = 0
) -> list[WatchedAccount]:
    pair = [
        WatchedAccount(n, m, deposit) for n, m in zip((one, other), money, strict=True)
    ]
    pair[0].partner, pair[1].partner = pair[::-1]
    return pair
