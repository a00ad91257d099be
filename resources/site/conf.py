"""How Sphinx makes pages of this repository as it lies, so that its links hold.

Each page passes through `prepare` before it is read: demos become Markdown, lessons get
a box below their head, and links lead to the lessons as they are shown.
"""

import ast
import itertools
import re
from pathlib import Path
from urllib.parse import unquote

import nbformat
from mdit_py_plugins.anchors.index import slugify
from sphinx.application import Sphinx

from sidebyside.html_export import DescribePictures

ROOT = Path(__file__).resolve().parents[2]
of_the_call = globals()["tags"]  # Sphinx puts them there
LESSONS = "lessons" if of_the_call.has("lessons") else "solutions"
CONTENTS = {
    "Paths": ["resources/paths/*.md", "resources/checklists/*.md"],
    "Part I: parallel programming in Python": [f"{LESSONS}/0[0-7]*.ipynb"],
    "Part II: data parallel training": [
        f"{LESSONS}/0[89]*.ipynb",
        f"{LESSONS}/1[0-2]*.ipynb",
    ],
    "Part III: splitting the model": [f"{LESSONS}/1[3-7]*.ipynb"],
    "Part IV: beyond one machine": [
        f"{LESSONS}/1[89]*.ipynb",
        f"{LESSONS}/2*.ipynb",
    ],
    "Beside the lessons": [
        "demos/__init__.py",
        "resources/workshop/[a-z]*.md",
        "resources/slurm/README.md",
        "resources/workshop/README.md",
    ],
}
DEMOS, INSTRUCTOR = "demos/*/*.py", "resources/workshop/[0-9]*.md"

project = html_title = "Side by Side"
author, html_show_copyright = "", False  # the licence says it
root_doc = "README"
extensions = ["myst_nb"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".py": "myst-nb"}
include_patterns = ["README.md", DEMOS, INSTRUCTOR]
include_patterns += itertools.chain(*CONTENTS.values())
suppress_warnings = ["misc.highlighting_failure"]  # of mermaid

nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "attrs_inline", "tasklist"]
myst_enable_checkboxes = True
myst_heading_anchors = 4
mathjax_path = "tex-svg.js"
# For screen readers as MathML: speech would need a worker, which a disk may not start.
SETTINGS = {"assistiveMml": True, "speech": False, "braille": False}
mathjax4_config = {"options": {"menuOptions": {"settings": SETTINGS}}}

html_theme = "sphinx_book_theme"
html_theme_options = {
    "collapse_navbar": True,
    "home_page_in_toc": True,
    "use_download_button": False,  # of the page's source; lessons have their own
    "navbar_persistent": [],  # the search stands in the column on the left
}
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # a page from a disk may not read other pages

BOX = """\
```{{admonition}} Do it yourself
[Download the open lesson](path:../lessons/{name}){{.btn .btn-primary}}

If your browser shows the file instead, save it (Ctrl+S). The lesson runs where the
course is [installed](../README.md#start);
`.venv/bin/sidebyside {number}` opens your own copy there.

{exercises}
```
"""


def contents(caption: str, patterns: list[str]) -> str:
    """The pages below this one in the table of contents."""
    files = [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]
    pages = [f"/{file.relative_to(ROOT).with_suffix('').as_posix()}" for file in files]
    head = ["", "```{toctree}", ":hidden:", f":caption: {caption}", ""]
    return "\n".join([*head, *pages, "```\n"])


def docstring(code: str) -> str:
    """What a program says of itself."""
    return ast.get_docstring(ast.parse(code)) or ""


def demo_page(path: Path, code: str) -> str:
    """What the demo shows, its manual, a button that downloads it, and its code."""
    what, _, how = docstring(code).partition("\n\n")
    code = code.split('"""', 2)[2].strip()
    return (
        f"# {path.name}\n\n{what}\n\n```text\n{how}\n```\n\n"
        f"[Download {path.name}](path:{path.name}){{.btn .btn-primary}}\n\n"
        f"```python\n{code}\n```\n"
    )


def list_of_demos() -> str:
    lines = ["# Demos", "Programs that run in a terminal, one phenomenon each."]
    for path in sorted(ROOT.glob(DEMOS)):
        what = docstring(path.read_text("utf-8")).partition("\n\n")[0]
        name = path.relative_to(ROOT / "demos").as_posix()
        lines.append(f"- [{name}]({name}): {what}")
    return "\n\n".join(lines) + contents("Demos", [DEMOS])


def lesson_page(path: Path, text: str) -> str:
    """The notebook with a box below its first cell; its pictures are described."""
    notebook = nbformat.reads(text, as_version=4)
    number, heading, exercises = path.name.partition("_")[0], "", []
    for cell in notebook.cells:
        DescribePictures().preprocess_cell(cell, {}, 0)
        if cell.cell_type == "markdown":
            heading = [heading, *re.findall(r"^##+ (.*)", cell.source, re.M)][-1]
            if "exercise" in cell.metadata:
                exercises.append(f"- [{heading}](#{slugify(heading)})")
    box = BOX.format(name=path.name, number=number, exercises="\n".join(exercises))
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(box))
    return nbformat.writes(notebook)


def with_links(match: re.Match) -> str:
    """To the lessons as they are shown; a heading is named as JupyterLab names it."""
    page, heading = match.groups()
    page = re.sub(r"lessons/(?=\w+\.ipynb$)", f"{LESSONS}/", page)
    return f"]({page}{heading and f'#{slugify(unquote(heading[1:]))}'})"


def prepare(app: Sphinx, page: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(page))
    text = re.sub(r"\]\(([\w./]*)(#[^)\s]+|)\)", with_links, source[0])
    if page == "demos/__init__":
        text = list_of_demos()
    elif path.suffix == ".py":
        text = demo_page(path, text)
    elif path.suffix == ".ipynb":
        text = lesson_page(path, text)
    elif page == "resources/workshop/README":
        text += contents("Lessons", [INSTRUCTOR])
    elif page == root_doc:  # a hidden folder would not be published
        text = text.replace("](.github/", "](path:.github/")
        text += "".join(contents(*part) for part in CONTENTS.items())
    source[0] = text


def draw_diagrams(app: Sphinx, page: str, template: str, context: dict, _) -> None:
    if "highlight-mermaid" in context.get("body", ""):
        app.add_js_file("dist/mermaid.tiny.js")
        app.add_js_file("diagrams.js")


def setup(app: Sphinx) -> None:
    app.connect("source-read", prepare)
    app.connect("html-page-context", draw_diagrams)
