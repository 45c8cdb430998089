"""Pictures: `make_dot` draws the dynamic graph of tensors, `graph` a compiled program before and after fusion.

Both give `graphviz.Digraph`s, drawn to files by Graphviz: `pip install 'adjit[viz]'`, and the program `dot` from https://graphviz.org.
A picture's text in the DOT language, `.source`, needs no `dot`.
"""

from adjit.viz.dynamic_graph import make_dot
from adjit.viz.program_graph import GraphPictures, graph

__all__ = ["GraphPictures", "graph", "make_dot"]
