"""What a model computes, as people read it: worked solutions."""
