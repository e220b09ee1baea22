"""bethink under SimulEval, the field's evaluator, in an environment that has both; beside bethink: pip install simuleval==1.1.4

    simuleval --agent examples/simuleval_agent.py --model toy --policy pe:k=1,rho=0.2,r=8 \
              --source source.txt --target reference.txt --output results

Its AL, LAAL, AP, DAL and BLEU are those of: bethink evaluate --model toy --policy … --source source.txt --reference reference.txt
"""

from simuleval.utils import entrypoint

from bethink.simuleval import Agent


@entrypoint
class Bethink(Agent):
    """The agent that SimulEval finds in this file; change `policy` in a class of your own to try another rule."""
