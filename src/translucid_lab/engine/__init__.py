"""What makes experiments of claims: rules and verdicts, the runner, results, and the report."""
