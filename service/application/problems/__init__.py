"""What is wrong with a request, in words: the member at fault and the nearest names."""
