"""`python -m pytest` leaves out what is marked `everything`, and says so at its end.

`--everything` runs all. A test called by its name, file.py::test_name, is run as well.
"""

from collections import Counter

import pytest

KINDS = {
    "tests/test_exercises.py": "answers to exercises",
    "tests/test_demos.py": "tests of demos",
    "lessons/": "tests of lessons",
    "": "other tests",
}
left_out: Counter[str] = Counter()  # tests of each kind


def pytest_addoption(parser) -> None:
    text = "run all tests, also those that the usual run leaves out"
    parser.addoption("--everything", action="store_true", help=text)


@pytest.hookimpl(trylast=True)  # among those that -k and -m have chosen
def pytest_collection_modifyitems(config, items) -> None:
    if config.option.everything or "everything" in config.option.markexpr:
        return
    called = tuple(arg.partition("::")[2] for arg in config.args if "::" in arg)
    long = [
        item
        for item in items
        if item.get_closest_marker("everything")
        and not item.nodeid.partition("::")[2].startswith(called)
    ]
    left_out.update(map(kind, long))
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in set(long)]


def kind(item: pytest.Item) -> str:
    return next(KINDS[place] for place in KINDS if item.nodeid.startswith(place))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """A worker has ended; each of them has left out the same."""
    if not left_out:
        left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after all that others write
def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(left_out)
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if left_out and reporter:
        kinds = ", ".join(f"{left_out[kind]:,} {kind}" for kind in left_out)
        reporter.write_line(f"Left out: {kinds}. They run with `pytest --everything`.")
