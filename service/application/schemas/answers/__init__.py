"""What is answered: plans and their parts, catalogs, problems."""
