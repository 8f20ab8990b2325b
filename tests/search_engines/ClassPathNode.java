import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.elasticsearch.analysis.common.CommonAnalysisPlugin;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.transport.Netty4Plugin;

/** A node with its plugins on the class path. Argument: its home, with `config/`. */
public class ClassPathNode extends Node {
  ClassPathNode(Environment environment, Collection<Class<? extends Plugin>> plugins) {
    super(environment, plugins, false);
  }

  public static void main(String[] arguments) throws Exception {
    Environment environment =
        InternalSettingsPreparer.prepareEnvironment(
            Settings.EMPTY, Map.of("path.home", arguments[0]), null, () -> "test");
    new ClassPathNode(environment, List.of(Netty4Plugin.class, CommonAnalysisPlugin.class)).start();
    Thread.currentThread().join();
  }
}
