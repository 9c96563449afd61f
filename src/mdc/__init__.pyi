from mdc.app.model import Model as Model
from mdc.app.model import load as load
from mdc.plan.records import UserError as UserError
