"""What is known of errors: causes with their words, errors of the engine and of libraries, their places."""
