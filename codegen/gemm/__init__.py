"""Matrix products of our own: shapes in, LLVM text out, object code of this machine's widest vectors."""
