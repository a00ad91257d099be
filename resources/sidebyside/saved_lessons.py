"""An extension of Jupyter's server: a lesson that was only opened is not changed.

JupyterLab writes into each notebook which version of Python runs it, and saves it, also
when nobody has typed or run anything; git would then show a change in `lessons`. Here
the lessons' language is written as the course has it. Other notebooks are left alone.
"""


def keep_language_as_in_course(model: dict, **others: object) -> None:
    """Called before each save, with what will be written."""
    content = model.get("content")
    metadata = content.get("metadata") if isinstance(content, dict) else None
    if isinstance(metadata, dict) and "sidebyside" in metadata:
        metadata["language_info"] = {"name": "python"}


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "sidebyside.saved_lessons"}]


def _load_jupyter_server_extension(server) -> None:
    server.contents_manager.register_pre_save_hook(keep_language_as_in_course)
