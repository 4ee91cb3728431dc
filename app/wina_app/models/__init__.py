"""Plain state that views show and controllers change."""
