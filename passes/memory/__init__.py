"""Where every value lies: lifetimes, places in one block, sharing of memory."""
