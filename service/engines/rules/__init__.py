"""Rules by topic: what each release does, as dated data beside the type that it becomes."""
