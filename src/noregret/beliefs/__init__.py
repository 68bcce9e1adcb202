"""What is believed about one individual: `point` (P_hat, r_hat and widths), `local` (a set of logits per pair)."""
