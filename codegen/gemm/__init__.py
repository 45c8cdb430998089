"""Matrix products (GEMM) in code of our own: sizes in, LLVM text and object code out, with the processor's widest vectors."""
