"""Numbers of the paper that several studies need."""

# The accuracy of the paper's GPT-2 at every scale from 1e13 to 1e15. The paper gives accuracies to
# one digit, and compares them by eye in figures with a dot for each prompt. So 0.4 stands for 0.35
# to 0.45, and a difference of less than 0.05 cannot be told from none.
PAPER_ACCURACY = 0.4
TOLERANCE = 0.05
