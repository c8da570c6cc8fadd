"""Handoffs: new contracts, spawn requests, reserved files, escalations and strategies."""
