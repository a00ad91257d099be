"""The ledger of training state, and ZeRO 1 to 3."""
