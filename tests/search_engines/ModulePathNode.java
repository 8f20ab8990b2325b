import java.nio.file.Path;
import java.util.Map;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;

/** A node that loads its plugins from `modules/`. Argument: its home, with `config/`. */
public class ModulePathNode {
  public static void main(String[] arguments) throws Exception {
    LogConfigurator.configureESLogging();
    Path configuration = Path.of(arguments[0], "config");
    new Node(
            InternalSettingsPreparer.prepareEnvironment(
                Settings.EMPTY, Map.of("path.home", arguments[0]), configuration, () -> "test"))
        .start();
    Thread.currentThread().join();
  }
}
