"""What stored runs say: tables by what they measure, tests in pairs, predictor swaps, figures and the report."""
