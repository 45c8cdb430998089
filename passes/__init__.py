"""Graph-to-graph passes: differentiation, simplification, fusion, memory. Every pass is pure, and its name is what it does."""
