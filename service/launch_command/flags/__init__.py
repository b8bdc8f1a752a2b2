"""The words after ``vllm serve``, read as the release does, and sorted by what a plan does with them."""
