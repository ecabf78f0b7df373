"""The parts that models are made of. Each computes one formula and shows every step of it."""
