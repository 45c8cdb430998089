"""Graph to graph: differentiation, simplification, fusion, memory. Every pass is pure, and named by what it does."""
