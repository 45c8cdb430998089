"""Memory of every value: lifetimes, offsets in one arena, sharing of buffers."""
