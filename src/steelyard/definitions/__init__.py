"""The formulas of the definitions page: one stem each, a pure function, an SQL macro where rows need it, a version."""
