"""Runs bethink under SimulEval. Install SimulEval in the same environment: pip install simuleval==1.1.4

    simuleval --agent examples/simuleval_agent.py --model toy --policy pe:k=1,rho=0.2,r=8 \
              --source source.txt --target reference.txt --output results

It finds the same AL, LAAL, AP, DAL and BLEU as: bethink evaluate --model toy --policy … --source source.txt --reference reference.txt
"""

from simuleval.utils import entrypoint

from bethink.simuleval import Agent


@entrypoint
class Bethink(Agent):
    """The agent that SimulEval finds in this file. For another rule, override `policy` in your own class."""
