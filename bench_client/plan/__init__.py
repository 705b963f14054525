"""Scenarios and options to a `Plan`. Pure but for reading the scenario's files."""
