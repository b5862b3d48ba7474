"""What is declared about money: price books, the tenancy tree and rates as they are stored, and what a version changed."""
