"""Show source code and text where the learner is: a notebook or a terminal."""

import inspect
import os
import sys
from textwrap import dedent
from typing import Any


def show(obj: Any) -> None:
    """Show the source code of a function, class or module."""
    try:
        code = inspect.getsource(inspect.unwrap(obj))
    except (TypeError, OSError, ValueError):
        name = getattr(obj, "__name__", None) or f"a {type(obj).__name__}"
        raise ValueError(
            f"show(obj): obj must be a function, class or module written in Python; "
            f"there is no source code for {name}"
        ) from None
    show_code(dedent(code))


def show_code(code: str) -> None:
    """Show Python code: coloured in a notebook, plain in a terminal."""
    code = code.strip("\n")
    if in_notebook():
        show_markdown(f"```python\n{code}\n```")
    else:
        print(code)


def show_markdown(text: str) -> None:
    """Show Markdown text: rendered in a notebook, as it is in a terminal."""
    if in_notebook():
        from IPython.display import Markdown, display

        display(Markdown(text))
    else:
        print(text)


def on_solution_page() -> bool:
    """A solution is stored: there the page says why, and lessons are still added."""
    return os.environ.get("SIDEBYSIDE_PAGE") == "solution"


def in_notebook() -> bool:
    """True in a Jupyter kernel. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")
