"""What is believed: `point` (P_hat, r_hat and widths), `local` (a set of logits per pair), both about one individual;
`joint` (an ellipsoid per block of weights), about all of them."""
