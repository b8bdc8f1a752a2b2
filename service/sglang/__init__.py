"""How SGLang sizes the pools of a model: budget, tokens and states, by release."""
