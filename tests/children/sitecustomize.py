"""In the processes that tests start: figures are drawn as SVG alone, as by the tests' own process."""

import importlib.util
import sys


class _SvgAlone:
    """Find the module that draws, and have it draw one form."""

    def find_spec(self, name, path=None, target=None):
        if name != "audit.report.figures.style":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            draw = module.figure_bytes
            module.figure_bytes = lambda figure, form, **how: draw(figure, form, **how) if form == "svg" or how else b""

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _SvgAlone())
