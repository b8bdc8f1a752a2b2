"""One question each: a plan, a log, a command, engines that share a GPU, another engine."""
