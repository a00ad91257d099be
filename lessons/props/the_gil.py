"""Who runs Python code when two threads want to: lesson 03 draws what each notes."""

from threading import Thread
from time import perf_counter

from sidebyside.timeline.lanes import Bar
from sidebyside.timeline.lanes_picture import draw_lanes


def turns_of_two_threads(seconds: float = 0.1) -> list[tuple[int, float, float]]:
    """(thread, start, end) of each turn, while two threads run for `seconds` seconds.

    Each thread notes the time, again and again, as fast as it can. Where notes of one
    follow each other without a note of the other between them, it had its turn.
    """
    notes, begin = [], perf_counter()

    def note_the_time(who: int) -> None:
        notes.append((perf_counter() - begin, who))  # however late it begins
        while (now := perf_counter() - begin) < seconds:
            notes.append((now, who))

    threads = [Thread(target=note_the_time, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turns = []
    for now, who in sorted(notes):
        if turns and turns[-1][0] == who:
            turns[-1] = (who, turns[-1][1], now)
        else:
            turns.append((who, now, now))
    return turns


def draw_thread_turns(turns: list[tuple[int, float, float]]):
    """A lane for each of the two threads, a bar for each turn."""
    lanes = {"thread 1": [], "thread 2": []}
    for who, start, end in turns:
        bar = Bar(1000 * start, 1000 * end, kind="turn", labels=("turn",))
        lanes[f"thread {who + 1}"].append(bar)
    fig = draw_lanes({"": lanes}, unit="ms")
    fig.alt = "when each of two threads ran Python code"
    return fig
