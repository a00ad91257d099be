"""How far a learner is on a path: what is left, and what comes next."""

from sidebyside.course.lesson_format import lessons_numbered
from sidebyside.course.paths import CoursePath, Link, Step, paths
from sidebyside.course.record import changed_record, read_record
from sidebyside.exercises.findings import PASSED
from sidebyside.programs.showing import in_notebook, show_markdown

RULE = (
    "A step is done when its exercises are passed; a step without exercises, when the "
    "guesses in its sections are measured; a step with neither, when a later step is "
    "done or you say so."
)


def progress_on_path(name: str, done: int | None) -> None:
    """Choose a path and show its steps; the learner says how many are `done`."""
    all_paths = {path.name: path for path in paths()}
    if name not in all_paths:
        print(f"There is no path {name}; there are: {', '.join(all_paths)}.")
        return
    path = all_paths[name]
    with changed_record() as record:
        record["course"]["path"] = {"name": name}
        if done is not None:
            record["course"][name] = {"done": done}
    still_open = open_steps(path)
    print(f"{path.title}: {minutes_left(path)}")
    for number, step in enumerate(path.steps, 1):
        tick = " " if step in still_open else "✓"
        print(f"  {tick} {number:>2}  {step.minutes:>3} min  {step.where}")
    show_markdown(RULE)
    if still_open:
        step = still_open[0]
        where = link_to(step) if in_notebook() else step.where
        number = path.steps.index(step) + 1
        then = "" if ids_of(step) else f' Then progress("{name}", done={number}).'
        show_markdown(f"Next: {where}: {step.text}.{then}")


def chosen_path() -> CoursePath | None:
    """The path that the learner chose last."""
    name = read_record()["course"].get("path", {}).get("name")
    return next((path for path in paths() if path.name == name), None)


def open_steps(path: CoursePath) -> list[Step]:
    """The steps that are not done, as far as the record knows."""
    record = read_record()
    reached = {id for id, e in record["exercises"].items() if e.get("state") == PASSED}
    reached |= {id for id, e in record["guesses"].items() if "measured" in e}
    steps = [(step, ids_of(step)) for step in path.steps]
    done = [n for n, (_, ids) in enumerate(steps, 1) if ids and ids <= reached]
    said = record["course"].get(path.name, {}).get("done", 0)
    last = max([said, *done])
    return [
        step
        for n, (step, ids) in enumerate(steps, 1)
        if ids - reached or (not ids and n > last)
    ]


def ids_of(step: Step) -> set[str]:
    """The exercises of a step or, if it has none, the guesses in its sections."""
    cells = [
        cell
        for link in step.links
        for lesson in lessons_numbered(link.lesson or "")
        for cell in lesson.section(link.heading)
    ]
    return {*step.exercises} or {id for cell in cells for id in cell.revealed}


def minutes_left(path: CoursePath) -> str:
    """ "45 of 120 minutes left", or "3 h 5 min of 6 h 37 min left" """
    left = sum(step.minutes for step in open_steps(path))
    if path.minutes <= 200:
        return f"{left} of {path.minutes} minutes left"
    return f"{hours_and_minutes(left)} of {hours_and_minutes(path.minutes)} left"


def hours_and_minutes(minutes: int) -> str:
    """ "3 h 20 min" """
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def link_to(step: Step) -> str:
    """The place, with links for the folder of the learner's lessons."""
    return step.place.format(*map(_link, step.links))


def _link(link: Link) -> str:
    beside = link.lesson or "://" in link.target
    target = link.target.removeprefix("lessons/") if beside else f"../{link.target}"
    return f"[{link.text}]({target})"
