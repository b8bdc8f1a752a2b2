"""What stays in memory beside the parameters: repacked copies, buffers, adapters, allocator's rests."""
