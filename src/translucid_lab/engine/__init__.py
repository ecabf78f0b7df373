"""Machinery of the lab: experiments and rules, the runner, verdicts, results and the report."""
