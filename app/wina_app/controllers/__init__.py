"""What the pages do, without a widget in sight; each controller is tested against a fake view."""
