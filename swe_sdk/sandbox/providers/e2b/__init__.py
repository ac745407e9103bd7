"""Boxes of systems that speak the wire of E2B: E2B itself, and AgentENV. Experimental."""
