"""Effects of compiling on the process: worker threads, forks, signals, the garbage collector, the GIL, cores."""
