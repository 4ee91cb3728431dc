"""The job list, its log and its notifications."""
