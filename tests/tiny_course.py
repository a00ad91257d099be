"""A complete course of one tiny lesson, for tests of the build and of the tests."""

import shutil
from pathlib import Path

from lessons.source import build

NAME = "90_tiny"
SOURCE = '''\
# ---
# title: 90 Tiny
# question: What is the smallest lesson?
# needs: nothing
# minutes: 2
# ---

# %% [markdown]
# # 90. The smallest lesson
#
# It has one of everything.

# %% [markdown] tags=["instructor"]
# ## Minutes: 2
#
# Draw a tiny circle.

# %% [markdown] tags=["instructor"]
# ## The figure: 1 minute
#
# Draw a tiny square.

# %%
for step, loss in enumerate([0.6931, 0.5]):
    print(f"step {step}  loss {loss:.4f}  {0.1:.2f} s")

# %% tags=["raises-exception"]
1 / 0

# %% [markdown]
# ## Exercise 1: double
#
# Write `double(x)`. By hand: `double(2)` is 4.
# <!-- exercise: 90-double -->
#
# <details><summary>Hint 1: a question</summary>
#
# What is twice 3?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Add it to itself.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# `x` plus `x`.
# </details>


# %% exercise="90-double"
def double(x: int) -> int:
    """Twice `x`."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %%
try:
    print(double(3))
except NotImplementedError as problem:
    print(problem)

# %% [markdown]
# Now by hand.

# %%
answer = ...
### BEGIN SOLUTION
answer = 6
### END SOLUTION
answer

# %% [markdown]
# ## What we saw
#
# Twice 3 is 6.

# %% [markdown] tags=["why"]
# <!-- why: 90-double -->
# Adding a number to itself doubles it.
'''
ANSWERS = """\
from lessons.source.sample_answers import wrong


@wrong("90-double", advice="", note="They read 2 + 2.")
def adds_two(number):
    return number + 2


wrong("90-double", advice="", note="They write **.", name="squares")(lambda x: x**2)
wrong("90-double", advice="", note="They copy the case.", name="constant")(lambda x: 4)
"""


def write_sources(root: Path, text: str = SOURCE) -> None:
    """Sources and settings only; nothing is built."""
    for folder in (f"lessons/source/{NAME}", "solutions", "tests"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / f"lessons/source/{NAME}/lesson.py").write_text(text)
    (root / f"lessons/source/{NAME}/answers.py").write_text(ANSWERS)
    shutil.copy(build.ROOT / "tests/test_products.py", root / "tests")
    shutil.copy(build.ROOT / "pyproject.toml", root)


def run_build(root: Path, *arguments: str) -> int:
    """The tiny lesson shows no speed, so it may be executed while others work."""
    return build.main([*arguments, "--busy", "--root", str(root)])


def products(root: Path) -> dict[str, Path]:
    return {
        "lesson": root / f"lessons/{NAME}.ipynb",
        "solution": root / f"solutions/{NAME}.ipynb",
        "page": root / f"resources/workshop/{NAME}.md",
    }
