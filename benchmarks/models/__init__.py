"""Small models for a GPU host without a network: made there in minutes, from fixed steps and seeds."""
