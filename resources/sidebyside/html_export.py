"""Pages exported as HTML describe their pictures.

A figure's description is in the metadata of its output. The page that nbconvert makes
unless asked for another drops it, and claims that there is none.
"""

from html import escape

from nbconvert.preprocessors import Preprocessor


class DescribePictures(Preprocessor):
    """Makes an image with `alt` of each picture that has a description.

    Installed with the course, in Jupyter's settings of its environment: `jupyter
    nbconvert --to html` and JupyterLab's menu both use it, with any template.
    """

    def preprocess_cell(self, cell, resources, index):
        for output in cell.get("outputs", []):
            match output:
                case {
                    "data": {"image/png": str(png)} as data,
                    "metadata": {"image/png": {"alt": str(alt)}},
                }:
                    source = f"data:image/png;base64,{png.strip()}"
                    data["text/html"] = f'<img alt="{escape(alt)}" src="{source}">'
        return cell, resources
