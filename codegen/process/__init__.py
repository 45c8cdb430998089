"""All that compiling does to the process: other threads, forks, signals, the garbage collector, the GIL, cores."""
