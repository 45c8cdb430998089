"""Analyses that passes and code generation share: aliases, cost, iteration spaces, kernel schedules, buffer assignment."""
