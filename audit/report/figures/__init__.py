"""Draw tables as figures, with seaborn and matplotlib: what the report shows, and what a paper can print.

No function here opens a file or a window. Every ``plot_…`` takes tables of :mod:`audit.tables` and returns a
`matplotlib.figure.Figure` that pyplot does not know; :func:`audit.report.figures.style.figure_bytes` turns it into
bytes, the same bytes for the same table. Text from a table is drawn as plain text, never as mathematics, and a missing
value is never drawn as 0. A figure that cannot be drawn is an error with a sentence, not an empty picture.

- :mod:`~audit.report.figures.heatmaps`: the cells of one dimension: means, what δ is made of, the published form,
  refusals; built on :mod:`~audit.report.figures.matrix`.
- :mod:`~audit.report.figures.forests`: gaps with their intervals: by dimension, by member of a family, between
  variants.
- :mod:`~audit.report.figures.distributions`: gaps of single narratives, ratings, and the published null.
- :mod:`~audit.report.figures.specification`: δ over all the ways in which it was measured.
- :mod:`~audit.report.figures.style`: shared colours, fonts, sizes, bytes.
"""
